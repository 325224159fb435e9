//! [`keep_fitting`], the rule for images and files that have no room in a result.

/// Keeps the first files that have room beside `bytes` of text in a result of `max_bytes`. Returns a
/// note for the model if others are left out.
pub(crate) fn keep_fitting<T>(
    files: &mut Vec<T>,
    size: impl Fn(&T) -> usize,
    bytes: usize,
    max_bytes: usize,
) -> Option<String> {
    let all = files.len();
    let mut room = max_bytes.checked_sub(bytes);
    files.retain(|file| {
        // The numbers in the text, such as `[image 2]`, count from the first one.
        room = room.and_then(|left| left.checked_sub(size(file)));
        room.is_some()
    });
    let missing = all - files.len();
    (missing > 0).then(|| {
        format!(
            "[{missing} of {all} images or files are left out: the maximum of a result is \
             {max_bytes} bytes. Request smaller ones.]"
        )
    })
}
