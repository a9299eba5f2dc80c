import type { SourcePosition, Verdict } from '../model.js'
import type { Ledger } from '../report.js'
import type { Directive } from './syntax.js'

interface LevelBlock {
  readonly directives: readonly Directive[]
  readonly at: SourcePosition
  readonly locationPattern?: string | undefined
  readonly isWholePath?: boolean
}

/** A block of the source with the blocks around it, for directives that inner blocks inherit. */
export class Level {
  readonly directives: readonly Directive[]
  /** Position of the block. */
  readonly at: SourcePosition
  /** Pattern of RE2 of a location with an expression. */
  readonly locationPattern: string | undefined
  /** The block is for one path without an extension. */
  readonly isWholePath: boolean
  readonly #outer: Level | undefined
  readonly #ledger: Ledger

  constructor(block: LevelBlock, ledger: Ledger, outer?: Level) {
    this.directives = block.directives
    this.at = block.at
    this.locationPattern = block.locationPattern
    this.isWholePath = block.isWholePath ?? false
    this.#ledger = ledger
    this.#outer = outer
  }

  inner(block: LevelBlock): Level {
    return new Level(block, this.#ledger, this)
  }

  /** Directives of this block alone. */
  own(name: string): Directive[] {
    return this.directives.filter((directive) => directive.name === name)
  }

  /** Directives of the innermost block that has any: those of blocks around it do not count then. */
  all(...names: readonly string[]): Directive[] {
    const own = this.directives.filter(({ name }) => names.includes(name))
    return own.length > 0 ? own : (this.#outer?.all(...names) ?? [])
  }

  /** The last one of `all`. */
  one(name: string): Directive | undefined {
    return this.all(name).at(-1)
  }

  /** First argument of the directive that counts. */
  value(name: string): string | undefined {
    return this.one(name)?.args[0]
  }

  isOn(name: string): boolean {
    return this.value(name) === 'on'
  }

  judge({ at }: { readonly at: SourcePosition }, verdict: Verdict): void {
    this.#ledger.judge(at, verdict)
  }
}

const SECONDS: Readonly<Record<string, number>> = {
  ms: 0.001,
  s: 1,
  m: 60,
  h: 3600,
  d: 86_400,
  w: 604_800,
  M: 2_592_000,
  y: 31_536_000
}

/** Seconds of a time of nginx such as `1m 30s` or `60`; undefined if it is none. */
export function secondsOf(text: string): number | undefined {
  if (/^\d+$/.test(text)) return Number(text)
  const parts = [...text.matchAll(/(\d+)(ms|[smhdwMy])\s*/g)]
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== text) return undefined
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * (SECONDS[unit as string] ?? 0), 0)
}

/** Bytes of a size of nginx such as `10m`; undefined if it is none. */
export function bytesOf(text: string): number | undefined {
  const [, count, unit = ''] = /^(\d+)([kKmMgG]?)$/.exec(text) ?? []
  if (count === undefined) return undefined
  return Number(count) * { '': 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 }[unit.toLowerCase() as 'k']
}
