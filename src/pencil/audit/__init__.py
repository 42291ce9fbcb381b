"""Check a random sample of a run's labels by hand, and certify how many of all of them are wrong."""

from pencil.audit.certificate import CertificateError, verify, write_certificate
from pencil.audit.findings import findings, newest_statements, sentences, suggested_looks
from pencil.audit.labels import FrozenLabels
from pencil.audit.page import AuditPage
from pencil.audit.record import Audit
from pencil.audit.session import Wanted, answer, begin, current_audit, resumed
from pencil.audit.sheet import ids_name_labels, read_sheet, takes_letters, texts_of, write_sheet

__all__ = [
    "Audit",
    "AuditPage",
    "CertificateError",
    "FrozenLabels",
    "Wanted",
    "answer",
    "begin",
    "current_audit",
    "findings",
    "ids_name_labels",
    "newest_statements",
    "read_sheet",
    "resumed",
    "sentences",
    "suggested_looks",
    "takes_letters",
    "texts_of",
    "verify",
    "write_certificate",
    "write_sheet",
]
