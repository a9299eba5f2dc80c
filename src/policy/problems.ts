import { type Coded, defineErrors } from '../lib/errors.js'
import type { SourceText, Span } from '../lib/positions.js'

/** Error codes of policy documents; features and expressions have tables of their own. */
export const policyErrors = defineErrors({
  DOCUMENT_SYNTAX: {
    text: 'The document is no valid YAML or JSON.',
    help: 'Correct it at the place that the message names.'
  },
  DOCUMENT_TAG: { text: 'The document uses a YAML tag.', help: 'Write the value without the tag.' },
  DOCUMENT_DUPLICATE_KEY: { text: 'A key stands twice in one map.', help: 'Remove one of them.' },
  DOCUMENT_LIMIT: {
    text: 'The document is too long, too deep or has too many values.',
    help: 'Divide the policy, or leave out what repeats.'
  },
  DOCUMENT_MANY: { text: 'The text holds more than one document.', help: 'Put each document into a file of its own.' },
  DOCUMENT_EMPTY: {
    text: 'The document holds no rules and no phase that is empty on purpose.',
    help: 'Write rules, or on_http_request: [] for a policy without any.'
  },
  DOCUMENT_INVALID: {
    text: 'The document is no map of phases, or one of its settings has a wrong value.',
    help: 'Follow the schema that sluice schema policy prints.'
  },
  PHASE: {
    text: 'The phase does not run on this kind of edge.',
    help: 'Use on_tcp_connect for TCP edges and the other phases for HTTPS edges.'
  },
  PHASE_UNKNOWN: {
    text: 'The document has a key that is no phase.',
    help: 'Use the name of a phase; the message lists them.'
  },
  LEGACY_PHASE: { text: 'The phase stands under its old name.', help: 'Write the new name; the old one still works.' },
  LEGACY_ENABLED: { text: 'The key enabled at the top of a document is no longer needed.', help: 'Remove it.' },
  RULES_INVALID: { text: 'A phase does not hold a list of rules.', help: 'Write a list, each rule with actions.' },
  RULE_INVALID: {
    text: 'A rule or a part of it has the wrong form.',
    help: 'Write a map with name, expressions and actions.'
  },
  RULE_KEY_UNKNOWN: {
    text: 'A rule has a key that is not known.',
    help: 'Use name, expressions and actions; the message suggests one.'
  },
  ACTIONS_MISSING: { text: 'A rule has no actions.', help: 'Add at least one action.' },
  ACTION_INVALID: {
    text: 'An action is no map with type and config.',
    help: 'Write type: and, where needed, config:.'
  },
  ACTION_KEY_UNKNOWN: { text: 'An action has a key that is not known.', help: 'Use type and config.' },
  ACTION_UNKNOWN: {
    text: 'There is no action of this type.',
    help: 'Use a type of the reference of actions; the message suggests one.'
  },
  ACTION_UNSUPPORTED: {
    text: 'The action exists elsewhere and is not supported here.',
    help: 'Do without it; the message says what to use instead.'
  },
  ACTION_UNAVAILABLE: {
    text: 'What the action asks for is valid and cannot run in this version.',
    help: 'Change the setting that the message names.'
  },
  ACTION_PHASE: {
    text: 'The action does not run in this phase, or never works on these connections.',
    help: 'Move it to a phase that the message names, or remove it.'
  },
  ACTION_RENAMED: {
    text: 'The action stands under its old name.',
    help: 'Write the new name; the old one still works.'
  },
  CONFIG_INVALID: {
    text: 'A field of config has a value that is not allowed.',
    help: 'Give a value as the message describes it.'
  },
  CONFIG_INCOMPLETE: {
    text: 'A field of config needs another one, which is missing.',
    help: 'Add the field that the message names.'
  },
  CONFIG_UNUSED: { text: 'A field of config has no effect here.', help: 'Remove it.' },
  PLACEHOLDER: { text: 'A value is still the placeholder of an example.', help: 'Put the real value in its place.' },
  REGEX_INVALID: {
    text: 'The pattern is no regular expression of RE2 syntax.',
    help: 'Correct it; RE2 has neither lookaround nor backreferences.'
  }
})

/** Steps from the root of a document to a node: keys and indexes. */
export type NodePath = readonly (string | number)[]

/** An error or warning in a policy document, with its position in the text. */
export interface Problem {
  readonly severity: 'error' | 'warning'
  /** Stable word for programs: `ACTION_UNKNOWN`, `CONFIG_INVALID`, `EXPRESSION_TYPE`, … */
  readonly code: string
  /** Message for people: the mistake and the allowed values. */
  readonly message: string
  /** `on_http_request[0].actions[1].config.capacity`; '' for the document itself. */
  readonly path: string
  /** From 1. */
  readonly line: number
  readonly column: number
  /** Characters to underline from `column`; at least 1. */
  readonly length: number
  /** Offset inside the string at `path` for a problem in an expression; UTF-16 units from 0. */
  readonly offset?: number
  /** Severity under strict paths; with other path forms there is no problem. The document alone does not determine the form. */
  readonly underStrict?: Severity
}

type Severity = Problem['severity']

/** Returns the problems that apply to a document with or without strict paths. */
export function judgePaths(problems: readonly Problem[], isStrict: boolean): readonly Problem[] {
  if (problems.every(({ underStrict }) => underStrict === undefined)) return problems
  return problems.flatMap(({ underStrict, ...problem }) =>
    underStrict === undefined ? [problem] : isStrict ? [{ ...problem, severity: underStrict }] : []
  )
}

/** The problems of one policy document of a plan. */
export interface UnitProblems {
  readonly key: string
  readonly source: string
  readonly text: string
  readonly problems: readonly Problem[]
}

/** Formats a path for people. */
export function formatPath(path: NodePath): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else if (/^[A-Za-z_][\w-]*$/.test(step)) text += text === '' ? step : `.${step}`
    else text += `[${JSON.stringify(step)}]`
  }
  return text
}

/** Maximum number of errors, and of warnings, shown for one document. A hostile document could have 100,000. */
const MOST = 100

/** A problem before its position is computed. */
interface Finding {
  readonly path: NodePath
  readonly error: Coded
  readonly message: string
  readonly span: Span
  readonly offset?: number | undefined
}

/** Collects problems and computes their positions in the text. */
export class Reporter {
  readonly problems: Problem[]
  readonly #source: SourceText
  readonly #count = { error: 0, warning: 0 }

  /** Continues with the problems of another reporter of the same text. */
  constructor(source: SourceText, problems: readonly Problem[] = []) {
    this.#source = source
    this.problems = [...problems]
    for (const { severity } of problems) this.#count[severity]++
  }

  get failed(): boolean {
    return this.#count.error > 0
  }

  /** True if further errors would not be shown, so that checks can stop. */
  get full(): boolean {
    return this.#count.error >= MOST
  }

  error(path: NodePath, error: Coded, message: string, span: Span, offset?: number): void {
    this.#add('error', { path, error, message, span, offset })
  }

  warning(path: NodePath, error: Coded, message: string, span: Span, offset?: number): void {
    this.#add('warning', { path, error, message, span, offset })
  }

  /** Adds problems that another reporter has found in a part of the text. */
  take(problems: readonly Problem[]): void {
    for (const problem of problems) if (++this.#count[problem.severity] <= MOST) this.problems.push(problem)
  }

  /** Returns the problems in document order. */
  sorted(): Problem[] {
    return this.problems.sort((a, b) => a.line - b.line || a.column - b.column)
  }

  #add(severity: Problem['severity'], finding: Finding): void {
    const count = ++this.#count[severity]
    if (count > MOST) return
    const note = count < MOST ? '' : ` (no more than ${MOST} ${severity}s are shown)`
    this.problems.push(this.problem(severity, { ...finding, message: `${finding.message}${note}` }))
  }

  /** Creates a problem with its position, without counting it for the document. */
  problem(severity: Problem['severity'], { path, error, message, span, offset }: Finding): Problem {
    const { line, column } = this.#source.place(span.start)
    // Only one line is underlined; a node may span several.
    const rest = this.#source.line(line).length - column + 1
    const length = Math.max(1, Math.min(span.end - span.start, rest))
    const problem = { severity, code: error.code, message, path: formatPath(path), line, column, length }
    return offset === undefined ? problem : { ...problem, offset }
  }
}
