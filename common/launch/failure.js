/** A reason to give up that the user can mend: it is printed as one line, without a stack. */
export class Failure extends Error {}
