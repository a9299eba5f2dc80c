import type { ProcessHooks } from '../../cli/process-hooks.js'
import { commandOf, takeOver } from './keeper.js'
import { Predecessor } from './predecessor.js'
import { SUCCESSION } from './succession.js'
import { Successor } from './successor.js'

/** Lets one process take the place of another. */
export const takeOverHooks = {
  successor: (environment) => Successor.of(environment),
  takeOver,
  async replaceable({ running, ...parts }) {
    const { handingOver, state } = running.opened.get(SUCCESSION)
    return await Predecessor.open({
      ...parts,
      running: { handingOver, state, lastError: running.lastError },
      own: { ...commandOf(process), folder: process.cwd() }
    })
  }
} satisfies ProcessHooks
