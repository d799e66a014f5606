"""Who may use a cluster: the holders of its certificates, and nobody else."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from distributed import Client
from distributed.security import Security

from phonechain.app.environment import load
from phonechain.app.jobs import dask_cluster
from phonechain.app.settings import Settings
from phonechain.features.errors import SettingsError

SECRET = "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One worker process of a service that has secrets in its environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PHONECHAIN_WEBHOOK_SECRET", SECRET)
        patch.setenv("PHONECHAIN_ADMIN_KEY", "0123456789abcdef-admin")
        patch.setenv("PHONECHAIN_DATABASE", "postgresql://user:password@host/name")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "of the store")
        with dask_cluster.start_local(Settings(workers=1), tmp_path_factory.mktemp("scratch")) as made:
            yield made


def _touch(path: Path) -> str:
    path.touch()
    return "done"


def _environment_at_start() -> str:
    """What the system shows of this process's environment: that of its start, whatever it changed since."""
    shown = Path("/proc/self/environ")
    return shown.read_text("utf-8", "replace") if shown.exists() else ""


def _try(address: str, security: Security | None, path: Path) -> None:
    with Client(address, security=security, timeout=3, set_as_default=False) as client:
        client.submit(_touch, path, pure=False).result(timeout=20)


def test_the_service_runs_its_tasks(cluster: Any, tmp_path: Path) -> None:
    _try(cluster.scheduler_address, cluster.security, tmp_path / "touched")
    assert (tmp_path / "touched").exists()


def test_nobody_else_runs_anything(cluster: Any, tmp_path: Path) -> None:
    assert cluster.scheduler_address.startswith("tls://")
    workers = [worker.worker_address for worker in cluster.workers.values()]
    assert workers
    assert all(address.startswith("tls://") for address in workers)
    plain = cluster.scheduler_address.replace("tls://", "tcp://")
    for address, security in ((plain, None), (cluster.scheduler_address, Security.temporary())):
        with pytest.raises((OSError, TimeoutError)):
            _try(address, security, tmp_path / "touched")
    assert not (tmp_path / "touched").exists()


def test_pages_of_the_cluster_tell_nothing(cluster: Any) -> None:
    """Dask opens ports for them, without TLS or a key."""
    port = cluster.scheduler.http_server.port
    for page in ("info/main/workers.html", "json/identity.json", "metrics"):
        assert httpx.get(f"http://127.0.0.1:{port}/{page}", timeout=30).status_code == 404


def test_workers_are_told_no_secrets(cluster: Any) -> None:
    with Client(cluster.scheduler_address, security=cluster.security, set_as_default=False) as client:
        environment: dict[str, str] = client.submit(lambda: dict(os.environ), pure=False).result(timeout=60)
        began: str = client.submit(_environment_at_start, pure=False).result(timeout=60)
    known = "\n".join((*environment.values(), began))
    for secret in (SECRET, "0123456789abcdef-admin", "password@host"):
        assert secret not in known
    assert environment["AWS_SECRET_ACCESS_KEY"] == "of the store", "workers read and write the store"


# ---------------------------------------------------------------------------------------------- a cluster's own TLS


def certificates(folder: Path) -> dict[str, Any]:
    """An authority with a certificate that it signed, as an operator would make them."""
    now = datetime.datetime.now(datetime.UTC)

    def make(name: str, issuer: str, key: Any, signer: Any, ca: bool) -> x509.Certificate:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .sign(signer, hashes.SHA256())
        )

    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    files = {
        "tls_ca": make("authority", "authority", authority, authority, True).public_bytes(serialization.Encoding.PEM),
        "tls_cert": make("node", "authority", own, authority, False).public_bytes(serialization.Encoding.PEM),
        "tls_key": own.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    }
    for name, data in files.items():
        (folder / f"{name}.pem").write_bytes(data)
    return {name: folder / f"{name}.pem" for name in files}


def test_a_cluster_with_certificates(tmp_path: Path) -> None:
    from distributed import LocalCluster

    security = dask_cluster.cluster_security(Settings(**certificates(tmp_path)))
    other = tmp_path / "other"
    other.mkdir()
    strange = dask_cluster.cluster_security(Settings(**certificates(other)))
    with LocalCluster(
        n_workers=1, processes=False, protocol="tls", security=security, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        _try(cluster.scheduler_address, security, tmp_path / "touched")
        assert (tmp_path / "touched").exists()
        for wrong in (strange, None):
            with pytest.raises((OSError, TimeoutError, TypeError)):
                _try(cluster.scheduler_address, wrong, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_half_of_the_settings_is_refused(tmp_path: Path) -> None:
    files = certificates(tmp_path)
    with pytest.raises(SettingsError, match="PHONECHAIN_TLS_CA, PHONECHAIN_TLS_CERT, PHONECHAIN_TLS_KEY: expected all"):
        load({"PHONECHAIN_TLS_CA": str(files["tls_ca"])})
    given = {f"PHONECHAIN_{name.upper()}": str(path) for name, path in files.items()}
    with pytest.raises(SettingsError, match="PHONECHAIN_SCHEDULER: expected tls://"):
        load({**given, "PHONECHAIN_SCHEDULER": "tcp://host:8786"})
    assert load({**given, "PHONECHAIN_SCHEDULER": "tls://host:8786"}).tls_ca == files["tls_ca"]
