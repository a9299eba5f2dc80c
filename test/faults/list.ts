import { clockJumps } from './clock.js'
import { killInWriteStorm } from './crash.js'
import { blackHole, pausedDatabase, stoppedDatabase } from './database.js'
import type { Fault } from './fault.js'
import { storeBackInTime } from './history.js'
import { fullDiskBelowLog, unreadLog } from './log-output.js'
import { stopWithHangingDatabase, successor } from './stop.js'

/** What `npm run faults` does, in this order. */
export const faults: readonly Fault[] = [
  fullDiskBelowLog,
  unreadLog,
  stoppedDatabase,
  pausedDatabase,
  blackHole,
  storeBackInTime,
  killInWriteStorm,
  stopWithHangingDatabase,
  successor,
  clockJumps
]
