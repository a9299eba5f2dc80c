import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What is done to the product, on purpose, while it serves. */
export interface Fault {
  readonly name: string
  /** Longest time, in seconds; beyond it counts as broken. */
  readonly within: number
  /** What this machine does not have; undefined: it can be done here. */
  missing?(): string | undefined
  run(stage: Stage): Promise<Outcome>
}

/** One row of the table. */
export interface Outcome {
  /** What clients saw. */
  readonly clients: string
  /** What the operator was told. */
  readonly operator: string
  /** Acknowledged writes or answers that are gone; empty: nothing. */
  readonly lost: readonly string[]
  /** What else did not hold; empty: all did. */
  readonly broken: readonly string[]
}

/** What a fault makes goes with it, last made first. Usable where a helper of the tests asks for a test. */
export class Stage {
  readonly #ends: (() => unknown)[] = []

  teardown(run: () => unknown): void {
    this.#ends.push(run)
  }

  /** A folder that goes with the fault. */
  async folder(): Promise<string> {
    const path = await mkdtemp(join(tmpdir(), 'sluice-fault-'))
    this.teardown(() => rm(path, { recursive: true, force: true }))
    return path
  }

  async end(): Promise<void> {
    for (let end = this.#ends.pop(); end !== undefined; end = this.#ends.pop()) await end()
  }
}

/** Whether it holds within so many milliseconds. One that throws does not hold yet. */
export async function comes(milliseconds: number, holds: () => boolean | Promise<boolean>): Promise<boolean> {
  const end = performance.now() + milliseconds
  for (;;) {
    try {
      if (await holds()) return true
    } catch {
      // Asked again.
    }
    if (performance.now() > end) return false
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** The texts whose condition does not hold. */
export function broken(claims: Readonly<Record<string, boolean>>): string[] {
  return Object.keys(claims).filter((claim) => claims[claim] === false)
}

export function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(1)} s`
}
