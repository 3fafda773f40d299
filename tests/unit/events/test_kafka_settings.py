"""Settings and log of the Kafka clients, and Redis URLs."""

from __future__ import annotations

import logging

import pytest

from stagemesh.runtime.config import ConfigError
from stagemesh.runtime.kafka_client import OncePer, client_settings
from stagemesh.runtime.kafka_consumer import ConsumerConfig, consumer_settings
from stagemesh.runtime.redis_client import connect
from stagemesh.runtime.topics import ALL, ANSWERS_STABLE


def test_own_settings_come_on_top_of_the_mesh_settings() -> None:
    settings = client_settings("broker:9092", {"security.protocol": "SSL", "reconnect.backoff.ms": 7})
    assert (settings["security.protocol"], settings["reconnect.backoff.ms"]) == ("SSL", 7)
    assert settings["metadata.recovery.strategy"] == "rebootstrap"


def test_positions_are_never_stored_before_the_effect() -> None:
    settings = consumer_settings("broker:9092", "g", ConsumerConfig())
    assert settings["enable.auto.offset.store"] is False
    assert settings["auto.offset.reset"] == "earliest"


def test_the_newer_group_protocol_gets_no_settings_that_it_refuses() -> None:
    settings = consumer_settings("broker:9092", "g", ConsumerConfig(), {"group.protocol": "consumer"})
    assert not {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"} & settings.keys()


def test_without_a_broker_the_key_to_set_is_named() -> None:
    with pytest.raises(ConfigError, match="kafka_bootstrap"):
        client_settings("")


@pytest.mark.parametrize("url", ["", "http://x", "redis://host:port"])
async def test_a_missing_or_malformed_redis_url_is_named(url: str) -> None:
    with pytest.raises(ConfigError, match="ledger_url"):
        connect(url)


@pytest.mark.parametrize("url", ["redis://localhost:1", "rediss://localhost:1/2", "unix:///tmp/x.sock?db=1"])
async def test_each_kind_of_redis_url_makes_a_client(url: str) -> None:
    client = connect(url)
    client.connection_pool.make_connection()
    await client.aclose()


def test_topics_carry_the_prefix_and_their_major_version() -> None:
    assert ANSWERS_STABLE.name("eu.") == "eu.stagemesh.answers.stable.v1"
    assert len({topic.base_name for topic in ALL}) == len(ALL)


def test_a_message_of_the_same_kind_passes_once_in_its_interval() -> None:
    once = OncePer(3600.0)

    def passes(kind: str, text: str) -> bool:
        record = logging.LogRecord("librdkafka", logging.ERROR, "", 0, "%s [%s] %s", (kind, "c", text), None)
        return once.filter(record)

    assert [passes("FAIL", "1"), passes("FAIL", "2"), passes("OFFSET", "3")] == [True, False, True]
