import type { Command } from 'commander'

/** Default of `--api`. */
export const API_URL = 'http://127.0.0.1:4040'

/** Collects the values of a flag that may be repeated. */
export function collect(value: string, values: readonly string[]): string[] {
  return [...values, value]
}

/** Commands that keep running when the reader of their output is gone. */
const running = new WeakSet<Command>()

/** Marks a command that keeps running when the reader of its output is gone. Returns the command. */
export function keepRunning(command: Command): Command {
  running.add(command)
  return command
}

/** Returns true if `keepRunning` has marked the command. */
export function keepsRunning(command: Command): boolean {
  return running.has(command)
}
