import { module } from '../objects.js'

/** Compresses responses for clients that take them so. */
export function compressionModule() {
  return module('Compresses responses for clients that take them so.', {})
}
