//! Work that is captured, and launched on some stream.

use cupool::{Graph, InstantiateOptions, MemPool};

use super::{controls::Rule, world::World};

impl World<'_> {
    /// Fills part of a buffer by way of a graph that has memory of its own, and launches it a few times.
    pub(crate) fn replay(&mut self) {
        let Some(mut held) = self.take() else { return };
        let (view, model) = held.exclusive();
        let (start, end) = self.choices.part(model.len());
        if start < end {
            let (stream, value) = (self.stream(), self.choices.next() as u8);
            let pool = MemPool::default_of(&self.ground.context.device()).unwrap();
            let home = view.home();
            let foreign = !home.is_same(&stream);
            if foreign {
                let _without = self.leave_out(Rule::GraphBefore);
                stream.wait_for(home).unwrap();
            }
            let (graph, ()) = Graph::capture(&self.ground.context, |capture| {
                let mut scratch = capture.alloc::<u8>(&pool, end - start)?;
                scratch.as_mut_slice().fill(value)?;
                capture.slice_mut(view.slice(start..end)?)?.copy_from(scratch.as_slice())?;
                scratch.free()
            })
            .unwrap();
            let mut exec = graph.instantiate(InstantiateOptions::default()).unwrap();
            for _ in 0..=self.choices.below(3) {
                // SAFETY: the buffer outlives the launches in its home's order, which has them between its own work.
                unsafe { exec.launch(&stream).unwrap() };
            }
            if self.choices.once_in(8) {
                exec.synchronize().unwrap();
            }
            if foreign {
                let _without = self.leave_out(Rule::GraphAfter);
                held.exclusive().0.home().wait_for(&stream).unwrap();
            }
            held.model.fill(start, end, &[value]);
        }
        self.held.push(held);
    }
}
