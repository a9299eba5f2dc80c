import { runProgram } from '../../src/cli/program.js'
import type { Asked } from './command.js'
import type { Ended } from './process.js'

/** Runs commands of `sluice` in this process, one after the other, as its parent asks for them (see `runCommand`). */

type Written = Record<'stdout' | 'stderr', string>

const HOME = process.cwd()

/** Each command leaves its listeners on signals behind, which end with the process where it has one of its own. */
process.setMaxListeners(0)

async function run({ words, cwd, env }: Asked): Promise<Ended> {
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name]
  Object.assign(process.env, env)
  process.chdir(cwd)
  process.exitCode = undefined
  const written: Written = { stdout: '', stderr: '' }
  const release = capture(written)
  try {
    const code = await runProgram(words)
    return { code, out: linesOf(written.stdout), err: linesOf(written.stderr) }
  } finally {
    release()
    process.exitCode = undefined
    process.chdir(HOME)
  }
}

/** Adds what is written to standard output and error to `written`, until the function that is returned is called. */
function capture(written: Written): () => void {
  const releases = (['stdout', 'stderr'] as const).map((name) => {
    const stream = process[name]
    const { write } = stream
    stream.write = (chunk: Uint8Array | string, ...rest: unknown[]) => {
      written[name] += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString()
      const done = rest.find((one) => typeof one === 'function')
      if (done !== undefined) process.nextTick(done as () => void)
      return true
    }
    return () => {
      stream.write = write
    }
  })
  return () => {
    for (const release of releases) release()
  }
}

/** As `SluiceProcess` has them: without the end of the last line. */
function linesOf(text: string): string {
  return text.replace(/\r?\n$/, '')
}

let last: Promise<void> = Promise.resolve()

process.on('message', (asked: Asked) => {
  last = last.then(async () => {
    process.send?.({ number: asked.number, ended: await run(asked) })
  })
})
process.on('disconnect', () => process.exit())
