"""`python -m services.tokenizer`"""

from __future__ import annotations

from services.tokenizer.config import TokenizerConfig
from services.tokenizer.service import TokenizerService
from stagemesh.runtime.config import ConfigError, read_source
from stagemesh.runtime.errors import die
from stagemesh.runtime.identity import process_identity
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import run, serve
from stagemesh.runtime.telemetry import configure_logging


def main() -> None:
    try:
        source = read_source()
        mesh, config = source.shared(MeshConfig), source.section("tokenizer", TokenizerConfig)
    except ConfigError as error:
        die(str(error))
    configure_logging(instance=process_identity("tokenizer").instance, level=mesh.log_level)
    address = config.listen or mesh.addresses.tokenizer[0]
    service = TokenizerService(mesh, config)
    run(serve(service, mesh, address, option="tokenizer.listen (STAGEMESH_TOKENIZER__LISTEN)"))


if __name__ == "__main__":
    main()
