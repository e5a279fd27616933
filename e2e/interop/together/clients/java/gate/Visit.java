package gate;

import java.io.Serializable;

/** The message, as Dubbo has it. */
public final class Visit implements Serializable {
    private static final long serialVersionUID = 1;

    public String client;
    public int inside;
}
