// A variable that needs a constructor, which an instruction set's object must not have.
int start();
int started = start();
