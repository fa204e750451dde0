//! kazma-fence.
