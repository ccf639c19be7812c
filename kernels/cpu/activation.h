#define ACTIVATE(a, s) (s)
