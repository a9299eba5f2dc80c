import { module } from '../objects.js'
import type { Target } from '../reference-ids.js'
import { ref } from '../references.js'

/** Where traffic goes. `targets`: the kinds of backends that can carry it. */
export function backendModule(targets: readonly Target[]) {
  return module('Where traffic goes.', { backend: ref(targets, { description: 'The backend.', required: true }) })
}
