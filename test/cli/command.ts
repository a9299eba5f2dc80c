import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'
import { type Ended, inheritedEnvironment, SluiceProcess, type Test } from './process.js'

/** One command for the process that runs them. */
export interface Asked {
  readonly number: number
  readonly words: readonly string[]
  readonly cwd: string
  /** All of its environment. */
  readonly env: Readonly<Record<string, string>>
}

/** They run until they are ended, or take the process over with signals and sockets. */
const LASTING = ['start', 'agent']

/** How long a command may take. Milliseconds. */
const LONGEST = 60_000

interface Waiting {
  resolve(ended: Ended): void
  reject(error: Error): void
}

/** The process that runs the commands of all tests of this one. */
class CommandHost {
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, Waiting>()
  #number = 0

  constructor() {
    this.#child = fork(join('dist-test', 'test', 'cli', 'command-host.js'), [], {
      env: inheritedEnvironment(),
      execArgv: [],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc']
    })
    this.#child.on('message', ({ number, ended }: { number: number; ended: Ended }) => {
      const waiting = this.#waiting.get(number)
      this.#waiting.delete(number)
      this.#hold()
      waiting?.resolve(ended)
    })
    this.#child.once('exit', (code, signal) => {
      if (host === this) host = undefined
      const error = new Error(`the process that runs commands ended with ${signal ?? code}`)
      for (const waiting of this.#waiting.values()) waiting.reject(error)
    })
  }

  async run(asked: Omit<Asked, 'number'>): Promise<Ended> {
    const number = ++this.#number
    const overdue = setTimeout(() => this.#child.kill('SIGKILL'), LONGEST)
    try {
      return await new Promise((resolve, reject) => {
        this.#waiting.set(number, { resolve, reject })
        this.#hold()
        this.#child.send({ number, ...asked } satisfies Asked)
      })
    } finally {
      clearTimeout(overdue)
    }
  }

  /** It keeps this process only while a command runs. */
  #hold(): void {
    const { channel } = this.#child
    if (this.#waiting.size > 0) {
      this.#child.ref()
      channel?.ref()
    } else {
      this.#child.unref()
      channel?.unref()
    }
  }
}

let host: CommandHost | undefined

/**
 * One command of `sluice`, run to its end in a process that all tests of this one share: starting one for each costs more than what
 * most commands do. A start that is to fail has a process of its own, which the test ends. Where signals or the end of the process
 * count, use a `SluiceProcess`. An executable that TEST_BINARY names runs by itself.
 */
export async function runCommand(
  t: Test,
  words: readonly string[],
  options: { cwd: string; env?: Record<string, string> }
): Promise<Ended> {
  const { TEST_BINARY } = process.env
  if (TEST_BINARY !== undefined || LASTING.includes(words[0] ?? ''))
    return await new SluiceProcess(t, words, options).ended()
  host ??= new CommandHost()
  return await host.run({ words, cwd: options.cwd, env: { ...inheritedEnvironment(), ...options.env } })
}
