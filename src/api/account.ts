import type { Backups } from '../control/backups.js'
import type { ControlPlane } from '../control/control-plane.js'
import type { DeadLetterLists } from '../control/dead-letters.js'
import type { Revisions } from '../control/revisions.js'

/** What the API asks of the control plane. */
export type Account = AccountOperations & {
  readonly revisions: Pick<Revisions, 'list' | 'get' | 'diff'>
  readonly deadLetters: Pick<DeadLetterLists, 'list' | 'get' | 'redeliver' | 'drop'>
  readonly backups: Pick<Backups, 'make'>
}

type AccountOperations = Pick<
  ControlPlane,
  | 'authenticate'
  | 'otherThanKey'
  | 'admits'
  | 'permit'
  | 'create'
  | 'get'
  | 'list'
  | 'update'
  | 'remove'
  | 'getModule'
  | 'replaceModule'
  | 'removeModule'
  | 'getParts'
  | 'getPart'
  | 'addPart'
  | 'updatePart'
  | 'removePart'
  | 'commandSession'
  | 'testDestination'
  | 'revision'
  | 'processes'
>
