/** The dialog that asks before a lock is taken away, and says how that ended. */
import { whereText, work } from './wording.js';

export class ReleaseDialog {
  constructor(base, say) {
    this.base = base;
    this.say = say;
    this.dialog = document.getElementById('release');
    this.what = document.getElementById('release-what');
    this.confirm = document.getElementById('release-confirm');
    document.getElementById('release-cancel').addEventListener('click', () => this.dialog.close());
    this.confirm.addEventListener('click', () => void this.release());
  }

  ask(instance, row, holder) {
    this.subject = { instance, key: row.key, fence: String(holder.fence) };
    this.what.textContent = `${row.key} is held by ${work(holder)} on ${whereText(holder)}, fence ${holder.fence}.`;
    this.dialog.showModal();
    // The focus is on Cancel, so that Enter, pressed by mistake, does no harm.
    document.getElementById('release-cancel').focus();
  }

  async release() {
    const { key } = this.subject;
    this.confirm.disabled = true;
    try {
      const response = await fetch(`${this.base}force-release?${new URLSearchParams(this.subject)}`, {
        method: 'POST',
        headers: { 'x-holdfast-board': 'force-release' },
      });
      const { released, message } = await response.json().catch(() => ({ message: `the server answered ${response.status}` }));
      if (!response.ok) this.say(`${key} was not taken away: ${message}`);
      else this.say(released ? `${key} was taken away; its holder is told.` : `That holder of ${key} was gone already; nothing was changed.`);
    } catch {
      this.say(`It is not known whether ${key} was taken away: the server does not answer.`);
    } finally {
      this.confirm.disabled = false;
      this.dialog.close();
    }
  }
}
