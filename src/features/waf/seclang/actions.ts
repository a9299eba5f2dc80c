import type { ActionWord } from './lines.js'
import { type Assignment, type Control, type Disruption, type Place, PlaceError } from './rule.js'
import { readVariable } from './variables.js'

/** Actions of one rule, before the defaults of its phase. Members that are not written are undefined. */
export interface RuleActions {
  id?: number
  phase?: number
  chain?: true
  transformations: string[]
  multiMatch?: true
  capture?: true
  readonly effects: {
    readonly assignments: Assignment[]
    readonly controls: Control[]
    /** `block` stands for the default of the phase. */
    disruption?: Disruption | 'block'
    status?: number
    skipAfter?: string
  }
  readonly report: { message: string; data: string; severity: string; readonly tags: string[]; logs?: boolean }
}

const PHASES: Readonly<Record<string, number>> = { request: 2, response: 4, logging: 5 }

const SEVERITIES = ['EMERGENCY', 'ALERT', 'CRITICAL', 'ERROR', 'WARNING', 'NOTICE', 'INFO', 'DEBUG']

/** Actions that only concern the audit log or the persistent collections of other engines, or describe the rule. */
const WITHOUT_EFFECT = new Set([
  'accuracy',
  'auditlog',
  'expirevar',
  'initcol',
  'maturity',
  'noauditlog',
  'rev',
  'sanitisearg',
  'sanitisematched',
  'sanitisematchedbytes',
  'sanitiserequestheader',
  'sanitiseresponseheader',
  'ver'
])

/** Settings of `ctl` that only concern the audit log and the debug log of other engines. */
const CONTROLS_WITHOUT_EFFECT = new Set(['auditengine', 'auditlogparts', 'debugloglevel', 'hashengine'])

/** Reads the actions of a rule. Throws `PlaceError`. */
export function readActions(words: readonly ActionWord[], place: Place): RuleActions {
  const actions: RuleActions = {
    transformations: [],
    effects: { assignments: [], controls: [] },
    report: { message: '', data: '', severity: '', tags: [] }
  }
  for (const { name, value } of words) {
    const read = READERS[name]
    if (read !== undefined) read(actions, value, place)
    else if (!WITHOUT_EFFECT.has(name)) throw new PlaceError(place, `the action ${name} is not known`)
  }
  return actions
}

const READERS: Readonly<Record<string, (actions: RuleActions, value: string, place: Place) => void>> = {
  id: (actions, value, place) => {
    actions.id = wholeNumber(value, 'id', place)
  },
  phase: (actions, value, place) => {
    const phase = PHASES[value.toLowerCase()] ?? wholeNumber(value, 'phase', place)
    if (phase < 1 || phase > 5) throw new PlaceError(place, `the phase is ${value}, not a number from 1 to 5`)
    actions.phase = phase
  },
  t: (actions, value) => {
    // `none` drops all transformations before it, those of the defaults too.
    if (value.toLowerCase() === 'none') actions.transformations = ['none']
    else actions.transformations.push(value)
  },
  multimatch: (actions) => {
    actions.multiMatch = true
  },
  capture: (actions) => {
    actions.capture = true
  },
  chain: (actions) => {
    actions.chain = true
  },
  setvar: (actions, value, place) => {
    const assignment = readAssignment(value, place)
    if (assignment !== undefined) actions.effects.assignments.push(assignment)
  },
  ctl: (actions, value, place) => {
    const control = readControl(value, place)
    if (control !== undefined) actions.effects.controls.push(control)
  },
  pass: (actions) => {
    actions.effects.disruption = 'pass'
  },
  block: (actions) => {
    actions.effects.disruption = 'block'
  },
  deny: (actions) => {
    actions.effects.disruption = 'deny'
  },
  drop: (actions) => {
    actions.effects.disruption = 'deny'
  },
  status: (actions, value, place) => {
    actions.effects.status = wholeNumber(value, 'status', place)
  },
  skipafter: (actions, value) => {
    actions.effects.skipAfter = value
  },
  msg: (actions, value) => {
    actions.report.message = value
  },
  logdata: (actions, value) => {
    actions.report.data = value
  },
  severity: (actions, value) => {
    actions.report.severity = SEVERITIES[Number(value)] ?? value.toUpperCase()
  },
  tag: (actions, value) => {
    actions.report.tags.push(value)
  },
  log: (actions) => {
    actions.report.logs = true
  },
  nolog: (actions) => {
    actions.report.logs = false
  }
}

function wholeNumber(value: string, name: string, place: Place): number {
  if (!/^\d{1,10}$/.test(value)) throw new PlaceError(place, `${name} is "${value}", not a whole number`)
  return Number(value)
}

/** Collections that other engines keep over several requests. Here they are never set, and a rule that reads them is refused. */
const PERSISTENT = new Set(['GLOBAL', 'IP', 'RESOURCE', 'SESSION', 'USER'])

/** Returns an assignment to a variable of TX; undefined for one to a persistent collection. */
function readAssignment(written: string, place: Place): Assignment | undefined {
  const unset = written.startsWith('!')
  const equals = written.indexOf('=')
  const left = (equals < 0 ? written : written.slice(0, equals)).slice(unset ? 1 : 0).trim()
  const dot = left.indexOf('.')
  const collection = left.slice(0, dot).toUpperCase()
  if (PERSISTENT.has(collection)) return undefined
  if (collection !== 'TX') throw new PlaceError(place, `setvar:${left} is not supported; only variables of TX are`)
  const name = left.slice(dot + 1)
  if (unset) return { name, how: 'unset', value: '' }
  const right = equals < 0 ? '1' : written.slice(equals + 1)
  if (right.startsWith('+')) return { name, how: 'add', value: right.slice(1) }
  if (right.startsWith('-')) return { name, how: 'subtract', value: right.slice(1) }
  return { name, how: 'set', value: right }
}

function readControl(written: string, place: Place): Control | undefined {
  const equals = written.indexOf('=')
  const name = (equals < 0 ? written : written.slice(0, equals)).trim().toLowerCase()
  const value = equals < 0 ? '' : written.slice(equals + 1).trim()
  if (CONTROLS_WITHOUT_EFFECT.has(name)) return undefined
  const [selection = '', target] = splitAt(value, ';')
  switch (name) {
    case 'ruleremovebyid':
      return { kind: 'remove-rules', ids: readIds(value, place), tag: undefined }
    case 'ruleremovebytag':
      return { kind: 'remove-rules', ids: [], tag: value }
    case 'ruleremovetargetbyid':
    case 'ruleremovetargetbytag': {
      if (target === undefined) throw new PlaceError(place, `ctl:${name} has no target after a semicolon`)
      const byId = name === 'ruleremovetargetbyid'
      return {
        kind: 'remove-target',
        ids: byId ? readIds(selection, place) : [],
        tag: byId ? undefined : selection,
        target: readVariable(target, place)
      }
    }
    case 'forcerequestbodyvariable':
      return { kind: 'body-variable', on: value.toLowerCase() === 'on' }
    case 'requestbodyprocessor':
      return { kind: 'body-processor', name: value.toUpperCase() }
    case 'ruleengine': {
      const mode = value.toLowerCase()
      return { kind: 'engine', mode: mode === 'on' || mode === 'off' ? mode : 'detection' }
    }
    default:
      throw new PlaceError(place, `ctl:${name} is not known`)
  }
}

/** Reads ids and ranges of ids, separated by white space or commas. */
export function readIds(text: string, place: Place): (readonly [from: number, to: number])[] {
  return text
    .split(/[\s,]+/)
    .filter((word) => word !== '')
    .map((word) => {
      const [, from, to] = /^(\d+)(?:-(\d+))?$/.exec(word) ?? []
      if (from === undefined) throw new PlaceError(place, `"${word}" is neither the id of a rule nor a range of ids`)
      return [Number(from), Number(to ?? from)] as const
    })
}

function splitAt(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator)
  return at < 0 ? [text, undefined] : [text.slice(0, at).trim(), text.slice(at + 1).trim()]
}
