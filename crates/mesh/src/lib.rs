//! kazma-mesh.
