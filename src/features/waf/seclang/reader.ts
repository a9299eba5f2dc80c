import { type RuleActions, readActions, readIds } from './actions.js'
import { type Directive, readActionWords, readDirectives } from './lines.js'
import {
  type Disruption,
  type OperatorUse,
  type Place,
  PlaceError,
  type Rule,
  RuleSetError,
  type RuleSetSource
} from './rule.js'
import { readVariables } from './variables.js'

/** A file of a rule set: its name for messages, and its bytes as Latin-1. */
export interface RuleFile {
  readonly name: string
  readonly text: string
}

/** Directives that other engines need and that have no effect here. */
const WITHOUT_EFFECT = new Set(['seccollectiontimeout', 'secsensorid', 'secauditlog', 'secdebuglog'])

/** Maximum number of listed mistakes. */
const MAX_PROBLEMS = 50

/** A rule being read: a chain gets its links afterwards. */
type Draft = { -readonly [K in keyof Rule]: Rule[K] } & { links: Draft[]; chained: boolean }

/** Reads rule sets in SecLang, the language of ModSecurity and Coraza, as far as the Core Rule Set uses it. */
class Reader {
  readonly #items: (Draft | { marker: string })[] = []
  /** Head of a chain whose next link follows. */
  #open: Draft | undefined
  /** True while links of a chain that was left out follow. */
  #leavingOut = false
  readonly #defaults = new Map<number, RuleActions>()
  readonly #ids = new Map<number, Place>()
  #signature = ''

  read({ place, name, arguments: words }: Directive): void {
    const [first = '', second, third] = words
    const directive = name.toLowerCase()
    if (this.#open !== undefined && directive !== 'secrule' && directive !== 'secaction')
      throw new PlaceError(place, `${name} stands inside of a chain of rules`)
    switch (directive) {
      case 'secrule':
        if (second === undefined || words.length > 3)
          throw new PlaceError(place, `SecRule takes variables, an operator and actions, not ${words.length} arguments`)
        this.#add(this.#rule(place, { variables: first, operator: second, actions: third ?? '' }))
        break
      case 'secaction':
        this.#add(this.#rule(place, { actions: first }))
        break
      case 'secmarker':
        this.#items.push({ marker: first })
        break
      case 'secdefaultaction':
        this.#setDefault(first, place)
        break
      case 'seccomponentsignature':
        this.#signature = first
        break
      case 'secruleremovebyid': {
        const ids = readIds(words.join(' '), place)
        this.#remove(({ id }) => isAmong(id, ids))
        break
      }
      case 'secruleremovebytag':
        this.#remove(({ report }) => report.tags.includes(first))
        break
      case 'secruleupdatetargetbyid': {
        const ids = readIds(first, place)
        this.#update(({ id }) => isAmong(id, ids), second ?? '', place)
        break
      }
      case 'secruleupdatetargetbytag':
        this.#update(({ report }) => report.tags.includes(first), second ?? '', place)
        break
      default:
        if (!WITHOUT_EFFECT.has(directive)) throw new PlaceError(place, `the directive ${name} is not known`)
    }
  }

  /** Leaves out a directive that cannot be read, with the rest of its chain. */
  leaveOut({ arguments: words }: Directive): void {
    const chained = /(?:^|,)\s*chain\s*(?:,|$)/.test(words.at(-1) ?? '')
    if (this.#open !== undefined) {
      this.#items.splice(this.#items.indexOf(this.#open), 1)
      this.#open = undefined
    }
    this.#leavingOut = chained
  }

  finish(): Omit<RuleSetSource, 'skipped'> {
    if (this.#open !== undefined) throw new PlaceError(this.#open.place, 'the chain has no further rule')
    return { items: this.#items, signature: this.#signature }
  }

  #add(draft: Draft): void {
    if (this.#leavingOut) {
      this.#leavingOut = draft.chained
      return
    }
    const head = this.#open
    if (head === undefined) {
      const known = this.#ids.get(draft.id)
      if (known !== undefined)
        throw new PlaceError(draft.place, `the id ${draft.id} is also that of the rule at ${known.file}:${known.line}`)
      this.#ids.set(draft.id, draft.place)
      this.#items.push(draft)
    } else head.links.push(draft)
    this.#open = draft.chained ? (head ?? draft) : undefined
  }

  #rule(place: Place, written: { variables?: string; operator?: string; actions: string }): Draft {
    const own = readActions(readActionWords(written.actions, place), place)
    const head = this.#open
    const isHead = head === undefined && !this.#leavingOut
    if (isHead && own.id === undefined) throw new PlaceError(place, 'the rule has no id')
    const phase = head?.phase ?? own.phase ?? 2
    const defaults = isHead ? this.#defaults.get(phase) : undefined
    const drops = own.transformations[0] === 'none'
    const transformations = [...(drops ? [] : (defaults?.transformations ?? [])), ...own.transformations]
    const { effects, report } = own
    return {
      place,
      id: head?.id ?? own.id ?? 0,
      phase,
      test: {
        variables: written.variables === undefined ? [] : readVariables(written.variables, place),
        operator: written.operator === undefined ? undefined : readOperator(written.operator),
        transformations: transformations.filter((name) => name !== 'none'),
        multiMatch: own.multiMatch ?? false,
        capture: own.capture ?? false
      },
      effects: {
        assignments: effects.assignments,
        controls: effects.controls,
        disruption: chooseDisruption(own, defaults),
        status: effects.status ?? defaults?.effects.status,
        skipAfter: effects.skipAfter
      },
      report: { ...report, logs: report.logs ?? defaults?.report.logs ?? true },
      links: [],
      chained: own.chain ?? false
    }
  }

  #setDefault(text: string, place: Place): void {
    const actions = readActions(readActionWords(text, place), place)
    if (actions.phase === undefined) throw new PlaceError(place, 'SecDefaultAction has no phase')
    this.#defaults.set(actions.phase, {
      ...actions,
      transformations: actions.transformations.filter((one) => one !== 'none')
    })
  }

  #remove(matches: (rule: Rule) => boolean): void {
    for (let i = this.#items.length - 1; i >= 0; i--) {
      const item = this.#items[i] as Draft | { marker: string }
      if (!('marker' in item) && matches(item)) this.#items.splice(i, 1)
    }
  }

  #update(matches: (rule: Rule) => boolean, variables: string, place: Place): void {
    const added = readVariables(variables.replace(/,\s*(?=[!&A-Z])/g, '|'), place)
    for (const item of this.#items) {
      if ('marker' in item || !matches(item)) continue
      item.test = { ...item.test, variables: [...item.test.variables, ...added] }
    }
  }
}

function chooseDisruption(own: RuleActions, defaults: RuleActions | undefined): Disruption {
  const written = own.effects.disruption ?? 'block'
  const chosen = written === 'block' ? (defaults?.effects.disruption ?? 'pass') : written
  return chosen === 'deny' ? 'deny' : 'pass'
}

function isAmong(id: number, ids: readonly (readonly [number, number])[]): boolean {
  return ids.some(([from, to]) => id >= from && id <= to)
}

/** Reads `@name argument`, with `!` before it for a negation; text without `@` is a pattern. */
function readOperator(text: string): OperatorUse {
  const negated = text.startsWith('!')
  const rest = negated ? text.slice(1).trimStart() : text
  const [, name, argument] = /^@(\w+)\s?([\s\S]*)$/.exec(rest) ?? []
  if (name === undefined) return { name: 'rx', negated, argument: rest }
  return { name, negated, argument: name === 'rx' ? (argument as string) : (argument as string).trim() }
}

/**
 * Reads the files of a rule set in their order. Throws `RuleSetError` with every mistake.
 *
 * `skipUnknown` leaves out rules with directives, operators or actions that are not known.
 */
export function readRuleSet(files: readonly RuleFile[], skipUnknown = false): RuleSetSource {
  const reader = new Reader()
  const problems: string[] = []
  for (const { name, text } of files) {
    let directives: readonly Directive[] = []
    try {
      directives = readDirectives(name, text)
    } catch (error) {
      if (!(error instanceof PlaceError)) throw error
      problems.push(error.message)
    }
    for (const directive of directives) {
      try {
        reader.read(directive)
      } catch (error) {
        if (!(error instanceof PlaceError)) throw error
        problems.push(error.message)
        reader.leaveOut(directive)
      }
    }
  }
  if (problems.length > 0 && !skipUnknown) throw new RuleSetError(problems.slice(0, MAX_PROBLEMS))
  try {
    return { ...reader.finish(), skipped: problems }
  } catch (error) {
    throw error instanceof PlaceError ? new RuleSetError([error.message]) : error
  }
}
