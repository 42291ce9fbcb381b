"""One reader per kind of data: official layouts, folders, manifests and feature arrays, each as ``Splits``."""
