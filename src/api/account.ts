import type { ControlPlane } from '../control/control-plane.js'

/** What the API asks of the control plane. */
export type Account = Pick<
  ControlPlane,
  | 'authenticate'
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
  | 'removePart'
  | 'revision'
  | 'processes'
>
