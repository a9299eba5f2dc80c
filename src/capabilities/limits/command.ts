import { Command } from 'commander'
import { API_URL } from '../../cli/flags.js'
import type { BucketFlags, LimitFlags } from './command-run.js'

const LIMIT_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice limits
  sluice limits top lim_3f0c…
  sluice limits key lim_3f0c… 203.0.113.9
  sluice limits key "per customer" acme GET
  sluice limits reset "per customer" --values '["acme",7]'
  sluice limits reset lim_3f0c… --bucket bkt_91d…

Lists the rate limits of all running policies, those that currently reject most first. LIMIT is the id or the unique name of a
limit. "top" lists the keys that were rejected most in the last five minutes, "key" shows the bucket of one key, and "reset"
empties it, so that its client is admitted again. KEY is the value of bucket_key; give one for each of its expressions. Use
--values for values that are not strings, and --bucket for a bucket name from "top". A limit without scope: cluster counts in each
process by itself: you see and reset the process behind --api.
Exit code 0: done; 1: the API refused; 2: the command line is wrong.`

function withAccess(command: Command): Command {
  return command
    .option('--json', 'print the response of the API as JSON')
    .option('--api <url>', 'URL of the management API', API_URL)
    .option('--insecure-http', 'allow http:// to another machine (sends the API key in clear text)')
}

function bucketCommand(name: 'key' | 'reset', description: string): Command {
  return withAccess(
    new Command(name)
      .description(description)
      .argument('<limit>', 'id or name of the limit')
      .argument('[key...]', 'value of bucket_key, one for each of its expressions')
      .option('--values <json>', 'the key as a JSON list')
      .option('--bucket <name>', 'bucket name from "limits top"')
  ).action(async (limit: string, key: string[], flags: BucketFlags) => {
    const { limitBucket } = await import('./command-run.js')
    process.exitCode = await limitBucket(name, limit, key, flags)
  })
}

/** `sluice limits`: lists the rate limits of a running process with their rejected keys, and resets buckets. */
export function limitsCommand(): Command {
  // The options of the list are also options of `limits`, so the list is a default subcommand.
  const list = withAccess(
    new Command('list')
      .description('list all rate limits with their counts')
      .option('--text <text>', 'only limits whose name, owner or rule contains this text')
  ).action(async (flags: LimitFlags & { readonly text?: string }) => {
    const { limitList } = await import('./command-run.js')
    process.exitCode = await limitList(flags)
  })
  const top = withAccess(
    new Command('top')
      .description('list the keys that a limit rejects most')
      .argument('<limit>', 'id or name of the limit')
      .option('--limit <count>', 'maximum number of keys', '20')
  ).action(async (limit: string, flags: LimitFlags & { readonly limit: string }) => {
    const { limitTop } = await import('./command-run.js')
    process.exitCode = await limitTop(limit, flags)
  })
  return new Command('limits')
    .description('list rate limits and reset buckets')
    .addCommand(list, { isDefault: true })
    .addCommand(top)
    .addCommand(bucketCommand('key', 'show the bucket of a key'))
    .addCommand(bucketCommand('reset', 'reset the bucket of a key'))
    .addHelpText('after', LIMIT_EXAMPLES)
}
