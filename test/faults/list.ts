import { backupUnderLoad } from './backup.js'
import { clockJumps } from './clock.js'
import { startWithoutStore } from './cold-start.js'
import { killInWriteStorm } from './crash.js'
import { blackHole, pausedDatabase, stoppedDatabase } from './database.js'
import { usedUpByThreads, usedUpDescriptors } from './descriptors.js'
import { fullDiskBelowStore } from './disk.js'
import { hangingDns } from './dns.js'
import { stopUnderPosts, uncaughtError } from './draining.js'
import type { Fault } from './fault.js'
import { storeBackInTime } from './history.js'
import { hungAgent, hungThread, takeOverFromHung } from './hung.js'
import { largeImport } from './import.js'
import { fullDiskBelowLog, unreadLog } from './log-output.js'
import { balanceBesidePipe, brokenPipes } from './pipes.js'
import { wrongSealKey } from './seal-key.js'
import { stopWithHangingDatabase, successor } from './stop.js'
import { goneStoreFile } from './store-file.js'

/** What `npm run faults` does, in this order. */
export const faults: readonly Fault[] = [
  fullDiskBelowLog,
  unreadLog,
  fullDiskBelowStore,
  goneStoreFile,
  stoppedDatabase,
  pausedDatabase,
  blackHole,
  startWithoutStore,
  storeBackInTime,
  killInWriteStorm,
  stopWithHangingDatabase,
  successor,
  stopUnderPosts,
  uncaughtError,
  clockJumps,
  usedUpDescriptors,
  usedUpByThreads,
  hungThread,
  takeOverFromHung,
  hungAgent,
  brokenPipes,
  balanceBesidePipe,
  hangingDns,
  wrongSealKey,
  largeImport,
  backupUnderLoad
]
