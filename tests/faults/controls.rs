//! The sweep finds what it is to find: scenarios that do wrong, each in another way.
