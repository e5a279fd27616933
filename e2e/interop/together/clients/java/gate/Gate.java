package gate;

/** The service, as Dubbo has it. */
public interface Gate {
    Visit open(Visit visit);
}
