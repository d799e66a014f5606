"""Settings: read, refused, documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from phonechain.app import settings
from phonechain.app.environment import load, unknown_variables
from phonechain.app.settings import Settings
from phonechain.features.errors import SettingsError

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


def test_variables_set_fields() -> None:
    known = load({"PHONECHAIN_PORT": "9000", "PHONECHAIN_MAX_AUDIO_SECONDS": "1.5", "PHONECHAIN_MODELS": "/x"})
    assert (known.port, known.max_audio_seconds, known.models) == (9000, 1.5, Path("/x"))


@pytest.mark.parametrize(("value", "size"), [("64MiB", 64 * 2**20), ("1.5GB", 1_500_000_000), ("2048", 2048)])
def test_sizes_take_units(value: str, size: int) -> None:
    assert load({"PHONECHAIN_MAX_BODY_BYTES": value}).max_body_bytes == size


@pytest.mark.parametrize("value", ["12", "64MiB2", "much"])
def test_a_size_that_is_none_is_refused_with_an_example(value: str) -> None:
    with pytest.raises(
        SettingsError, match=r"PHONECHAIN_MAX_BODY_BYTES: expected (a number of bytes such as 64MiB|.*1024)"
    ):
        load({"PHONECHAIN_MAX_BODY_BYTES": value})


def test_options_win_over_variables() -> None:
    assert load({"PHONECHAIN_PORT": "9000"}, port=1234, host=None).port == 1234


def test_the_process_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHONECHAIN_QUEUE_SIZE", "7")
    assert load().queue_size == 7


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PHONECHAIN_PORT", "abc"),
        ("PHONECHAIN_PORT", "70000"),
        ("PHONECHAIN_HOST", ""),
        ("PHONECHAIN_MAX_AUDIO_SECONDS", "nan"),
        ("PHONECHAIN_MAX_AUDIO_SECONDS", "0"),
        ("PHONECHAIN_QUEUE_SIZE", "0"),
        ("PHONECHAIN_DECODE_THREADS", "1.5"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load({name: value})
    assert str(caught.value).startswith(f"{name}: ")
    assert "\n" not in str(caught.value)
    assert caught.value.pointer == name


def test_a_secret_is_never_repeated() -> None:
    with pytest.raises(SettingsError) as caught:
        load({"PHONECHAIN_ADMIN_KEY": "hunter2"})
    assert str(caught.value).startswith("PHONECHAIN_ADMIN_KEY: ")
    assert "hunter2" not in str(caught.value) + str(caught.value.value)


def test_another_environment_is_read_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHONECHAIN_PORT", "9000")
    assert load({}).port == 8000


def test_names_that_no_setting_reads() -> None:
    given = {
        "PHONECHAIN_PROT": "1",
        "PHONECHAIN_PORT": "1",
        "PHONECHAIN_SHARED": "x",
        "PATH": "y",
        "PHONECHAIN_ZZZ": "",
    }
    assert unknown_variables(given) == [
        "PHONECHAIN_PROT is not a setting; did you mean PHONECHAIN_PORT?",
        "PHONECHAIN_ZZZ is not a setting",
    ]


def test_every_setting_has_unit_and_meaning() -> None:
    for name, field in Settings.model_fields.items():
        assert isinstance(field.json_schema_extra, dict), name
        assert field.json_schema_extra["unit"] or field.annotation is bool, name
        assert field.description, name
        assert field.description.endswith("."), name


def test_the_documentation_has_the_same_table() -> None:
    assert settings.table() in OPERATIONS.read_text("utf-8"), (
        "docs/operations.md: expected the table that `python -m phonechain.app.settings` prints"
    )
