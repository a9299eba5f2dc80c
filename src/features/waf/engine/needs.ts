import {
  buildNeedTable,
  markNeeds,
  type NeedMarks,
  type NeedPlace,
  type NeedTable,
  placeOf
} from '../../../lib/need-table.js'
import type { Need } from '../../../lib/regex-needs.js'

/** Needs of a rule set as plain data, which threads can share. */
export interface NeedData {
  readonly table: NeedTable
  /** Numbers of the needs by the key of the pattern or the phrases. */
  readonly numbers: ReadonlyMap<string, readonly number[]>
}

/** Needs of all patterns and phrases of a rule set, which one search finds. */
export class RuleNeeds {
  readonly #needs: Need[] = []
  readonly #numbers: Map<string, readonly number[]>
  #table: NeedTable | undefined
  #blank: NeedMarks | undefined

  /**
   * `built`: needs that are not looked for again.
   * @default none
   */
  constructor(built?: NeedData) {
    this.#numbers = new Map(built?.numbers)
    this.#table = built?.table
  }

  /** Returns the places of the needs with this key, which `find` lists if there are none yet; undefined without a need. */
  places(key: string, find: () => readonly Need[]): readonly NeedPlace[] | undefined {
    let numbers = this.#numbers.get(key)
    if (numbers === undefined) {
      numbers = find().map((need) => this.#needs.push(need) - 1)
      this.#numbers.set(key, numbers)
    }
    return numbers.length === 0 ? undefined : numbers.map(placeOf)
  }

  /** Returns marks without needs. */
  blank(): NeedMarks {
    this.#blank ??= [...this.#built.blank]
    return this.#blank.slice()
  }

  /** Adds the needs that a text meets to `marks`. */
  mark(text: string, marks: NeedMarks): void {
    markNeeds(this.#built, text, marks)
  }

  /** Returns the needs as data. */
  share(): NeedData {
    return { table: this.#built, numbers: this.#numbers }
  }

  get #built(): NeedTable {
    this.#table ??= buildNeedTable(this.#needs)
    return this.#table
  }
}

/** Returns whether values with these marks may match. */
export function meetsNeeds(marks: NeedMarks, needs: readonly NeedPlace[]): boolean {
  for (const { word, bit } of needs) if (((marks[word] as number) & bit) === 0) return false
  return true
}
