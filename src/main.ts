import { runProgram } from './cli/program.js'

/** What a command left open does not keep the process: everything it had to finish is finished. Milliseconds. */
const LINGER = 1_000

// No await: what is shipped is a script, which cannot wait at its top.
void runProgram(process.argv.slice(2)).then((code) => {
  process.exitCode = code
  setTimeout(() => process.exit(), LINGER).unref()
})
