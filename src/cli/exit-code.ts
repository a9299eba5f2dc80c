/** What a command ends with. Signals that end it at once add 128, as shells do. */
export const ExitCode = {
  /** Done. */
  ok: 0,
  /** It could not be done, or what was checked is wrong. */
  failure: 1,
  /** The command line, the environment or the options file asks for something that is not there. */
  usage: 2
} as const
