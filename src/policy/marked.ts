import { formatDuration, parseDuration } from '../lib/units.js'
import type { DurationField } from './config.js'
import { formatPath } from './problem.js'
import type { ActionScope } from './scope.js'

/** Reports durations that cannot be read or are out of their bounds. */
export function checkDurations(durations: readonly DurationField[], scope: ActionScope): void {
  for (const { text, path, schema } of durations) {
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
