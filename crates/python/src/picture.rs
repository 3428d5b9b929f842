//! The lab's pictures, as notebooks show them.

use std::path::PathBuf;

use pyo3::prelude::*;
use tack_lab::svg::{Plot, stacked};

use crate::failure;

/// One picture, or several below each other.
#[pyclass(frozen, module = "tack_lab")]
pub(crate) struct Picture {
    plots: Vec<Plot>,
}

impl Picture {
    pub(crate) fn new(plots: Vec<Plot>) -> Picture {
        Picture { plots }
    }
}

#[pymethods]
impl Picture {
    /// What stands above each.
    #[getter]
    fn titles(&self) -> Vec<&str> {
        self.plots.iter().map(|plot| plot.title.as_str()).collect()
    }

    /// As a document of its own.
    #[getter]
    fn svg(&self) -> String {
        match self.plots.as_slice() {
            [plot] => plot.svg(),
            plots => stacked(plots),
        }
    }

    /// Writes it as an SVG file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let wrong = |e| failure::at_file(py, &path, &e);
        std::fs::write(&path, self.svg()).map_err(wrong)
    }

    fn _repr_svg_(&self) -> String {
        self.svg()
    }

    fn __len__(&self) -> usize {
        self.plots.len()
    }

    fn __repr__(&self) -> String {
        format!("<tack_lab.Picture: {}>", self.titles().join("; "))
    }
}
