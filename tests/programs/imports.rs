//! Memory that is exported and imported, both by this process: what is owed between processes, the program sees to.

use std::sync::Arc;

use cupool::{
    Buffer, Error, MemHandleTypes, MemPool, MemPoolProperties, Stream, StreamHandle,
    ipc::{ExportedPointer, ImportedBuffer, ImportedPool},
};
use cupool_sim::Symbol;

use super::{
    controls::Rule,
    model::Model,
    world::{Ground, World},
};

type Home<'g> = Arc<dyn StreamHandle + 'g>;

/// A pool, at both its ends.
pub(crate) struct Exchange<'g> {
    pool: MemPool,
    imported: ImportedPool,
    all: Vec<Exported<'g>>,
}

/// A buffer that has been exported, its imports, and what it should hold.
struct Exported<'g> {
    buffer: Buffer<u8, &'g Stream>,
    pointer: ExportedPointer,
    imports: Vec<ImportedBuffer<u8, Home<'g>>>,
    /// Whether some import of this mapping has gone.
    left: bool,
    model: Model,
}

impl Exchange<'_> {
    pub(crate) fn new(ground: &Ground) -> Self {
        let properties = MemPoolProperties::new().handle_types(MemHandleTypes::POSIX_FD);
        let pool = MemPool::with_properties(&ground.context.device(), &properties).unwrap();
        let imported = ImportedPool::from_fd(&ground.context, pool.export_fd().unwrap()).unwrap();
        Self { pool, imported, all: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl<'g> World<'g> {
    pub(crate) fn exchange(&mut self) {
        let count = self.exchange.all.len();
        let choice = self.choices.below(12);
        if count == 0 || (choice == 0 && count < 4) {
            return self.export_buffer();
        }
        if choice == 11 {
            return self.end_export();
        }
        let at = self.choices.below(count);
        let mut exported = self.exchange.all.swap_remove(at);
        match choice {
            0..4 if exported.imports.len() < 3 => self.import(&mut exported),
            0..7 if exported.imports.is_empty() => self.write(exported.buffer.as_mut_slice(), &mut exported.model),
            0..7 => self.use_import(&mut exported),
            _ => self.drop_import(&mut exported),
        }
        self.exchange.all.push(exported);
    }

    fn export_buffer(&mut self) {
        let stream = &self.ground.streams[self.choices.below(self.ground.streams.len())];
        let len = 1 + self.choices.below(300);
        let bytes = self.choices.bytes(len);
        let buffer = self.exchange.pool.alloc_from_host(&bytes, stream).unwrap();
        let pointer = buffer.export().unwrap();
        let model = Model::of(&bytes);
        self.exchange.all.push(Exported { buffer, pointer, imports: Vec::new(), left: false, model });
    }

    fn import(&mut self, exported: &mut Exported<'g>) {
        let home = self.any_home();
        home.stream().wait_for(exported.buffer.home()).unwrap();
        for other in &exported.imports {
            home.stream().wait_for(other.home()).unwrap();
        }
        // SAFETY: the home stream has waited for all that was done. The exporter leaves the buffer alone until its own
        // stream has waited for the last import's, and it is written through an only import.
        let import = unsafe { self.exchange.imported.import(&exported.pointer, home) };
        exported.imports.push(import.map_err(|error: Error| error.to_string()).unwrap());
    }

    fn use_import(&mut self, exported: &mut Exported<'g>) {
        let Exported { imports, model, .. } = exported;
        // Those that have gone may still be at it.
        if imports.len() == 1 && !exported.left && self.choices.once_in(2) {
            // SAFETY: nobody else has it.
            self.write(unsafe { imports[0].as_mut_slice() }, model);
        } else {
            let at = self.choices.below(imports.len());
            self.read(imports[at].as_slice(), model);
        }
    }

    /// The last is released after what the others were used for.
    fn drop_import(&mut self, exported: &mut Exported<'g>) {
        let count = exported.imports.len();
        if count == 0 {
            return;
        }
        let at = self.choices.below(count);
        let import = exported.imports.swap_remove(at);
        let home = Arc::clone(import.stream());
        {
            let _without = match (count, exported.left) {
                (1, false) => None,
                (1, true) => self.leave_out(Rule::ImportLast),
                _ => self.leave_out(Rule::ImportLeaves),
            };
            let _hindered = self.hinder([(Symbol::cuEventRecord, 0), (Symbol::cuStreamWaitEvent, 0)]);
            import.free().unwrap();
        }
        exported.left = count > 1;
        if count == 1 {
            exported.buffer.home().wait_for(home.stream()).unwrap();
        }
    }

    /// Imports go before the buffer.
    pub(crate) fn end_export(&mut self) {
        let count = self.exchange.all.len();
        if count > 0 {
            let at = self.choices.below(count);
            let mut exported = self.exchange.all.swap_remove(at);
            while !exported.imports.is_empty() {
                self.drop_import(&mut exported);
            }
        }
    }
}
