import { formatDuration, parseDuration } from '../lib/duration.js'
import type { MarkedField } from './config.js'
import { formatPath } from './problem.js'
import type { ActionScope } from './scope.js'

/** Reports durations that cannot be read or are out of their bounds. */
export function checkDurations(marked: readonly MarkedField[], scope: ActionScope): void {
  for (const { kind, text, path, schema } of marked) {
    if (kind !== 'duration') continue
    const { 'x-min': min = 0, 'x-max': max = Number.POSITIVE_INFINITY, 'x-multiple': multiple = 1 } = schema
    const milliseconds = parseDuration(text)
    const name = `\`${formatPath(path)}\``
    if (milliseconds === undefined) {
      const hint = /^\d+$/.test(text) ? `; a unit is missing, such as ${text}s` : ''
      scope.field(path, `${name} must be a duration such as 90s or 1h30m, with the units h, m, s, ms${hint}`, false)
    } else if (milliseconds < min || milliseconds > max) {
      const bounds = Number.isFinite(max)
        ? `from ${formatDuration(min)} to ${formatDuration(max)}`
        : `at least ${formatDuration(min)}`
      scope.field(path, `${name} must be ${bounds}, not ${text}`, false)
    } else if (milliseconds % multiple !== 0) {
      scope.field(path, `${name} must be a multiple of ${formatDuration(multiple)}, not ${text}`, false)
    }
  }
}

/** Compiles what the schema marks, only to report what is wrong: for actions that have no compiler of their own yet. */
export function checkMarked(marked: readonly MarkedField[], scope: ActionScope): void {
  for (const { kind, text, path } of marked) {
    if (kind === 'expression') scope.expression(text, path)
    // A pattern with `${…}` is known when the exchange is.
    else if (kind === 'template' || (kind === 'regex' && text.includes('${'))) scope.template(text, path)
    else if (kind === 'regex') scope.regex(text, path)
  }
}
