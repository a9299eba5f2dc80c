import type { Clock } from '../../lib/clock.js'
import { timestampText } from '../text.js'
import type { VariableDefinition } from './definition.js'

/** `time.now` is text of RFC 3339; `timestamp(time.now)` is the instant. */
export function timeVariables(clock: Clock): readonly VariableDefinition[] {
  return [{ path: 'time.now', type: 'string', read: () => timestampText(new Date(clock.wall())) }]
}
