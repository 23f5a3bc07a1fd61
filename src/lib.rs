pub const X:u32=0;
