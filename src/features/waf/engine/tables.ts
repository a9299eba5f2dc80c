import { compileProgram } from '../../../lib/regex.js'
import type { RegexProgram } from '../../../lib/regex-program.js'
import { buildPhraseTable, type PhraseTable } from '../phrases.js'
import { type NeedData, RuleNeeds } from './needs.js'
import { patternMemory, RulePattern } from './patterns.js'

/** Maximum length of a pattern in UTF-16 units. */
const MAX_PATTERN = 16_384

/** Tables as plain data, which threads can share. */
export interface TableData {
  readonly patterns: ReadonlyMap<string, RegexProgram>
  readonly phrases: ReadonlyMap<string, PhraseTable>
  readonly needs: NeedData
}

/** Tables of the patterns and phrases of a rule set. Equal ones exist once. */
export class RuleTables {
  readonly #programs: Map<string, RegexProgram>
  readonly #phrases: Map<string, PhraseTable>
  readonly #patterns = new Map<string, RulePattern>()
  readonly #memory = patternMemory()
  readonly needs: RuleNeeds

  /**
   * `built`: tables that are not built again.
   * @default none
   */
  constructor(built?: TableData) {
    this.#programs = new Map(built?.patterns)
    this.#phrases = new Map(built?.phrases)
    this.needs = new RuleNeeds(built?.needs)
  }

  /** Returns a pattern, or the mistake in it in one sentence. */
  pattern(written: string): RulePattern | string {
    const known = this.#patterns.get(written)
    if (known !== undefined) return known
    const program = this.#programs.get(written) ?? compileProgram(written, { dotAll: true, maxLength: MAX_PATTERN })
    if (typeof program === 'string') return program
    this.#programs.set(written, program)
    const pattern = new RulePattern(written, program, this.#memory)
    this.#patterns.set(written, pattern)
    return pattern
  }

  /** Returns the table of the phrases with this key, which `read` lists if there is none yet. */
  phrases(key: string, read: () => readonly string[]): PhraseTable {
    let table = this.#phrases.get(key)
    if (table === undefined) {
      table = buildPhraseTable(read())
      this.#phrases.set(key, table)
    }
    return table
  }

  /** Returns all tables in memory that threads share. */
  share(): TableData {
    return shareArrays({ patterns: this.#programs, phrases: this.#phrases, needs: this.needs.share() })
  }
}

type Table = Uint8Array | Uint16Array | Int32Array

/** Bytes that the beginning of an array is a multiple of. */
const ALIGNMENT = 4

/** Copies the arrays of tables into one shared memory. */
function shareArrays(tables: TableData): TableData {
  const size = (table: Table) => Math.ceil(table.byteLength / ALIGNMENT) * ALIGNMENT
  let bytes = 0
  for (const table of [...tables.patterns.values(), ...tables.phrases.values(), tables.needs.table])
    for (const member of Object.values(table)) if (isTable(member)) bytes += size(member)
  const memory = new SharedArrayBuffer(bytes)
  let at = 0
  const copy = (member: unknown): unknown => {
    if (!isTable(member)) return member
    const { constructor: Kind, length } = member as Table & { readonly constructor: new (...words: never) => Table }
    const shared = Reflect.construct(Kind, [memory, at, length]) as Table
    shared.set(member)
    at += size(member)
    return shared
  }
  const copyMembers = <T extends object>(table: T): T =>
    Object.fromEntries(Object.entries(table).map(([name, member]) => [name, copy(member)])) as T
  const copyAll = <T extends object>(of: ReadonlyMap<string, T>): Map<string, T> =>
    new Map([...of].map(([key, table]) => [key, copyMembers(table)]))
  return {
    patterns: copyAll(tables.patterns),
    phrases: copyAll(tables.phrases),
    needs: { table: copyMembers(tables.needs.table), numbers: tables.needs.numbers }
  }
}

function isTable(member: unknown): member is Table {
  return member instanceof Uint8Array || member instanceof Uint16Array || member instanceof Int32Array
}
