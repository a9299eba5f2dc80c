#!/usr/bin/env node
import { runProgram } from './cli/program.js'

/** What a command left open does not keep the process: everything it had to finish is finished. Milliseconds. */
const LINGER = 1_000

process.exitCode = await runProgram(process.argv.slice(2))
setTimeout(() => process.exit(), LINGER).unref()
