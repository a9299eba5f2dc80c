import { runProgram } from './cli/program.js'

/** Time that open handles may keep the process after its command has finished (ms). */
const LINGER = 1_000

// No await: what is shipped is a script, which cannot wait at its top.
void runProgram(process.argv.slice(2)).then((code) => {
  process.exitCode = code
  setTimeout(() => process.exit(), LINGER).unref()
})
