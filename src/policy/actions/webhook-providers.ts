import { providers } from '../webhook/providers.js'

/** Senders of webhooks whose signatures `verify-webhook` knows by name. */
export const WEBHOOK_PROVIDERS: readonly string[] = [...providers.keys()]
