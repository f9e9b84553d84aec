// A library that is no provider at all.
extern "C" int titan_something_else() { return 0; }
