"""What can be wrong with a model. All are ConfigErrors: a service that needs the model ends with the sentence.

ConfigError
└── ModelError
    ├── ModelMissing       not pulled yet, or a path that is not there
    ├── ModelCorrupt       the bytes are not what they should be
    ├── UnsupportedModel   sound, but nothing this build can run
    └── PullError          could not be fetched
"""

from __future__ import annotations

from stagemesh.runtime.config import ConfigError


class ModelError(ConfigError):
    """Base of the tree; the message is a sentence for the operator."""


class ModelMissing(ModelError):
    """The model is unknown or its files are not on this machine."""


class ModelCorrupt(ModelError):
    """A file is malformed or its checksum is wrong."""


class UnsupportedModel(ModelError):
    """An architecture, tokenizer or number format that is not supported; the message names what is."""


class PullError(ModelError):
    """The model could not be fetched: no network, no space, wrong bytes."""
