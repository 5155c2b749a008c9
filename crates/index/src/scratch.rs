//! Buffers of queries. The caller keeps them, so that a warm query allocates nothing.

use std::any::Any;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// Reusable buffers of one searching thread, for indexes of every kind.
///
/// Each kind keeps buffers of a type of its own here, created when an index of that kind is searched
/// for the first time.
#[derive(Default)]
pub struct Scratch {
    /// One value per type; there are as many types as kinds.
    buffers: Vec<Box<dyn Buffers>>,
}

/// Plain buffers: threads may share them, and a panic leaves them usable.
trait Buffers: Any + Send + Sync + UnwindSafe + RefUnwindSafe {}

impl<B: Any + Send + Sync + UnwindSafe + RefUnwindSafe> Buffers for B {}

impl Scratch {
    /// Empty buffers. They grow to what queries need and keep that size.
    pub fn new() -> Scratch {
        Scratch::default()
    }

    /// The buffers of type `B`, empty at the first call.
    ///
    /// Cost: one comparison of type ids per kind; allocates at the first call.
    pub(crate) fn buffers<B>(&mut self) -> &mut B
    where
        B: Any + Default + Send + Sync + UnwindSafe + RefUnwindSafe,
    {
        let mut kept = self.buffers.iter().map(|buffers| -> &dyn Any { &**buffers });
        let position = kept.position(|buffers| buffers.is::<B>()).unwrap_or_else(|| {
            self.buffers.push(Box::<B>::default());
            self.buffers.len() - 1
        });
        let buffers: &mut dyn Any = &mut *self.buffers[position];
        buffers.downcast_mut().expect("a position of this type")
    }
}

#[cfg(test)]
mod tests {
    use super::Scratch;

    #[test]
    fn each_type_of_buffers_is_kept_beside_the_others() {
        let mut scratch = Scratch::new();
        scratch.buffers::<Vec<u8>>().push(7);
        scratch.buffers::<Vec<f32>>().push(0.5);
        assert_eq!(scratch.buffers::<Vec<u8>>(), &[7]);
        assert_eq!(scratch.buffers::<Vec<f32>>(), &[0.5]);
        assert_eq!(scratch.buffers.len(), 2);
    }
}
