from pathlib import Path

from stagemesh.cli.supervisor.mesh_file import ProcessState, read_mesh
from stagemesh.cli.supervisor.spec import Phase
from tests.contract.supervised import becomes, fake_spec, record_of, supervised

READY = ProcessState.READY


async def test_servers_are_ready_before_services_start_and_outlive_them(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    options = ("--journal", str(journal))
    specs = [
        fake_spec("server", *options, phase=Phase.SERVER),
        fake_spec("service", *options),
        fake_spec("gateway", *options, phase=Phase.GATEWAY),
    ]
    async with supervised(tmp_path / "state", specs) as state:
        for spec in specs:
            await becomes(state, spec.name, READY)
    events = journal.read_text().splitlines()
    assert events[0] == "server start"
    assert sorted(events[1:3]) == ["gateway start", "service start"]
    assert events[3:] == ["gateway term", "gateway end", "service term", "service end", "server term", "server end"]


async def test_a_process_may_finish_its_work_before_it_ends(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with supervised(tmp_path / "state", [fake_spec("a", "--journal", str(journal), "--drain-s", "0.5")]) as state:
        await becomes(state, "a", READY)
    assert journal.read_text().splitlines() == ["a start", "a term", "a end"]


async def test_a_process_that_ignores_the_stop_signal_is_killed(tmp_path: Path) -> None:
    async with supervised(tmp_path, [fake_spec("a", "--ignore-term")], drain_grace_s=-2.5) as state:
        await becomes(state, "a", READY)
    assert "did not end within 0.5 s of SIGTERM" in state.log_of("a").read_text()


async def test_stopping_during_the_start_ends_everything(tmp_path: Path) -> None:
    specs = [fake_spec("server", phase=Phase.SERVER), fake_spec("service")]
    async with supervised(tmp_path, specs) as state:
        await becomes(state, "server", ProcessState.STARTING)
        assert record_of(state, "service").state is ProcessState.WAITING
    record = read_mesh(state.mesh_file)
    assert record is not None
    assert record.processes == ()
    assert not record.running


async def test_a_server_that_the_mesh_can_do_without_holds_nothing_up_for_long(tmp_path: Path) -> None:
    broken = fake_spec("optional", "--exit-code", "75", phase=Phase.SERVER, max_wait_s=0.2)
    async with supervised(tmp_path, [broken, fake_spec("service")]) as state:
        await becomes(state, "service", READY)
        assert record_of(state, "optional").state is not READY
