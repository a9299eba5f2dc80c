import { execFile, spawnSync } from 'node:child_process'

/** Is this program installed? */
export function installed(program: string): boolean {
  return spawnSync(program, ['--version'], { stdio: 'ignore' }).error === undefined
}

export interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Runs a program to its end; what it is told on standard input is all that it is told. */
export function run(program: string, words: readonly string[], input = ''): Promise<Ran> {
  return new Promise((resolve) => {
    const child = execFile(program, [...words], { timeout: 30_000 }, (error, out, err) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), out, err })
    })
    child.stdin?.end(input)
  })
}
