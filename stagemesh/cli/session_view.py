"""What `stagemesh session` shows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from stagemesh.api.cache.v1 import cache_pb2, preferences_pb2


def summary_json(session: cache_pb2.SessionSummary) -> dict[str, Any]:
    return {
        "session_id": session.session_id,
        "user_id": session.user_id or None,
        "num_messages": session.num_messages,
        "num_tokens": session.num_tokens,
        "updated_at_s": session.updated_at.seconds,
    }


def summary_line(session: cache_pb2.SessionSummary) -> str:
    user = f"  of {session.user_id}" if session.user_id else ""
    when = _when(session.updated_at)
    return f"{session.session_id}{user}  {session.num_messages} messages, {session.num_tokens:,} tokens, last {when}"


def session_json(session: cache_pb2.Session) -> dict[str, Any]:
    return {
        "session_id": session.session_id,
        "user_id": session.user_id or None,
        "messages": [{"role": message.role, "content": message.content} for message in session.messages],
        "created_at_s": session.created_at.seconds,
        "updated_at_s": session.updated_at.seconds,
        "expires_at_s": session.expires_at.seconds,
    }


def session_lines(session: cache_pb2.Session) -> list[str]:
    head = f"{session.session_id}{f' of {session.user_id}' if session.user_id else ''}"
    times = f"since {_when(session.created_at)}, last {_when(session.updated_at)}, until {_when(session.expires_at)}"
    return [f"{head}, {times}", *(f"{message.role}: {message.content}" for message in session.messages)]


def user_json(
    user_id: str, sessions: Sequence[cache_pb2.SessionSummary], preferences: Sequence[preferences_pb2.Preference]
) -> dict[str, Any]:
    return {
        "user_id": user_id,
        "sessions": [summary_json(session) for session in sessions],
        "preferences": [preference_json(preference) for preference in preferences],
    }


def user_lines(
    user_id: str, sessions: Sequence[cache_pb2.SessionSummary], preferences: Sequence[preferences_pb2.Preference]
) -> list[str]:
    return [
        f"{user_id}: {len(sessions)} sessions, {len(preferences)} preferences",
        *(f"  {summary_line(session)}" for session in sessions),
        *(f"  {preference_line(preference)}" for preference in preferences),
    ]


def preference_json(preference: preferences_pb2.Preference) -> dict[str, Any]:
    return {
        "preference_id": preference.preference_id,
        "text": preference.text,
        "in_force": preference.in_force,
        "count": preference.count,
        "rule": preference.rule,
        "normalized": preference.normalized or None,
        "first_stated_at_s": preference.first_stated_at.seconds,
        "last_stated_at_s": preference.last_stated_at.seconds,
    }


def preference_line(preference: preferences_pb2.Preference) -> str:
    state = "in force" if preference.in_force else "not in force yet"
    why = "set" if preference.rule == "set" else f"stated {preference.count}×, {preference.rule}"
    return f"{preference.preference_id}  {preference.text!r}  {state} ({why})"


def _when(at: Timestamp) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at.seconds))
