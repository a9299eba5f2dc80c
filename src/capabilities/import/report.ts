import { positionText, type SourcePosition, type Statement, type Verdict } from './model.js'

/** Number of statements by verdict. */
export interface VerdictCounts {
  readonly exact: number
  readonly close: number
  readonly notHere: number
}

/** Severity of verdicts; the highest one of several counts. */
const SEVERITY = { exact: 0, close: 1, 'not-here': 2 } as const

/**
 * Collects the verdict of each statement while a reader works. A statement can be judged several times: the worst verdict
 * counts, and the texts of equal ones are joined.
 */
export class Ledger {
  readonly #statements: {
    at: SourcePosition
    text: string
    within: readonly SourcePosition[]
    verdict: Verdict | undefined
  }[] = []
  readonly #byPosition = new Map<string, number>()

  /**
   * Adds a statement that no one has judged yet. `within`: the blocks around it, the innermost first. A statement of a file that is included
   * several times is added once.
   */
  add(at: SourcePosition, text: string, within: readonly SourcePosition[] = []): void {
    if (this.has(at)) return
    this.#byPosition.set(positionText(at), this.#statements.length)
    this.#statements.push({ at, text, within, verdict: undefined })
  }

  /** Is there a statement at this place? */
  has(at: SourcePosition): boolean {
    return this.#byPosition.has(positionText(at))
  }

  judge(at: SourcePosition, verdict: Verdict): void {
    const entry = this.#statements[this.#byPosition.get(positionText(at)) ?? -1]
    if (entry === undefined) throw new Error(`no statement at ${positionText(at)}`)
    entry.verdict = entry.verdict === undefined ? verdict : worse(entry.verdict, verdict)
  }

  verdictAt(at: SourcePosition): Verdict | undefined {
    return this.#statements[this.#byPosition.get(positionText(at)) ?? -1]?.verdict
  }

  /** All statements; `usual` gives the verdict of those that no part of the reader has judged. */
  statements(usual: (text: string) => Verdict): Statement[] {
    return this.#statements.map(({ verdict, ...rest }) => ({ ...rest, verdict: verdict ?? usual(rest.text) }))
  }
}

function worse(one: Verdict, other: Verdict): Verdict {
  if (SEVERITY[one.kind] !== SEVERITY[other.kind]) return SEVERITY[one.kind] > SEVERITY[other.kind] ? one : other
  if (one.kind !== 'close' || other.kind !== 'close' || one.difference.includes(other.difference)) return one
  return { kind: 'close', difference: `${one.difference}; ${other.difference}` }
}

export function countVerdicts(statements: readonly Statement[]): VerdictCounts {
  const of = (kind: Verdict['kind']) => statements.filter(({ verdict }) => verdict.kind === kind).length
  return { exact: of('exact'), close: of('close'), notHere: of('not-here') }
}

/** Words of a verdict for people: the difference, or the reason with what to do instead. */
export function verdictText(verdict: Verdict): string {
  if (verdict.kind === 'exact') return ''
  return verdict.kind === 'close' ? verdict.difference : `${verdict.reason}; ${verdict.instead}`
}

export const verdictWord = ({ kind }: Verdict) => (kind === 'not-here' ? 'not here' : kind)

/** The table: a line for each statement with its position, verdict, text and explanation, then the totals. */
export function formatTable(statements: readonly Statement[]): string[] {
  const places = statements.map(({ at }) => `${at.file}:${at.line}`)
  const width = Math.max(0, ...places.map(({ length }) => length))
  const lines = statements.map(({ verdict, text }, index) => {
    const explanation = verdictText(verdict)
    const head = `${(places[index] as string).padEnd(width)}  ${verdictWord(verdict).padEnd(8)}  ${text}`
    return explanation === '' ? head : `${head}\n${' '.repeat(width + 12)}${explanation}`
  })
  return [...lines, summarize(statements)]
}

function summarize(statements: readonly Statement[]): string {
  const { exact, close, notHere } = countVerdicts(statements)
  const total = `${statements.length} ${statements.length === 1 ? 'statement' : 'statements'}`
  return `${total}: ${exact} exact, ${close} close, ${notHere} not here`
}

/** The report for programs. */
export function reportJson(format: string, statements: readonly Statement[]): object {
  const counts = countVerdicts(statements)
  return {
    format,
    counts: { exact: counts.exact, close: counts.close, not_here: counts.notHere },
    statements: statements.map(({ at, text, verdict }) => ({
      file: at.file,
      line: at.line,
      column: at.column,
      text,
      verdict: verdict.kind === 'not-here' ? 'not_here' : verdict.kind,
      ...(verdict.kind === 'close' ? { difference: verdict.difference } : {}),
      ...(verdict.kind === 'not-here' ? { reason: verdict.reason, instead: verdict.instead } : {})
    }))
  }
}
