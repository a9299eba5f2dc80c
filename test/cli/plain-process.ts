import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { inheritedEnvironment, sluiceCommand } from './process.js'

interface Test {
  teardown(run: () => Promise<void>): void
}

/** `sluice start` as an operator starts it. It is ended with the test. */
export class PlainProcess {
  readonly child: ChildProcess
  /** Every line of the log, parsed. */
  readonly lines: Record<string, unknown>[] = []
  readonly #ended: Promise<unknown>
  readonly #listening: Promise<{ traffic: string; api: string }>

  constructor(t: Test, cwd: string, env: Readonly<Record<string, string>>) {
    const [command, words] = sluiceCommand(['start', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0'])
    this.child = spawn(command, words, {
      cwd,
      env: { ...inheritedEnvironment(), ...env },
      stdio: ['ignore', 'pipe', 'pipe']
    })
    this.#ended = once(this.child, 'close')
    this.#listening = this.#read()
    // Who is killed before it listens is not asked.
    this.#listening.catch(() => undefined)
    t.teardown(async () => {
      this.child.kill('SIGKILL')
      await this.#ended
    })
  }

  /** URLs, once it serves. Rejects with what it said when it ends before. */
  listening(): Promise<{ traffic: string; api: string }> {
    return this.#listening
  }

  async ended(): Promise<void> {
    await this.#ended
  }

  #read(): Promise<{ traffic: string; api: string }> {
    return new Promise((resolve, reject) => {
      const said: string[] = []
      for (const stream of [this.child.stdout, this.child.stderr]) {
        createInterface({ input: stream as NonNullable<typeof stream> }).on('line', (line) => {
          said.push(line)
          if (line.startsWith('{')) this.lines.push(JSON.parse(line) as Record<string, unknown>)
          if (line.includes('"msg":"listening"')) resolve(JSON.parse(line) as { traffic: string; api: string })
        })
      }
      this.child.once('close', () => reject(new Error(`the process ended\n${said.join('\n')}`)))
    })
  }
}
