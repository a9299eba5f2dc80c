import type { ForeignEnvironment } from '../options/group.js'
import { certificateOptions } from './certificates/options.js'
import { eventOptions } from './events/options.js'
import { recorderOptions } from './recorder/options.js'
import { statusOptions } from './status/options.js'
import { otelEnvironment } from './traces/environment.js'
import { traceOptions } from './traces/options.js'
import { agentOptions } from './tunnel/options.js'
import { workerOptions } from './workers/options.js'

/** Options of all capabilities. They are read before any capability is loaded, so they have a list beside `registry.ts`. */
export const optionGroups = [
  agentOptions,
  certificateOptions,
  recorderOptions,
  traceOptions,
  eventOptions,
  workerOptions,
  statusOptions
] as const

/** Readers of variables of other programs that set these options. */
export const foreignEnvironments: readonly ForeignEnvironment[] = [otelEnvironment]
